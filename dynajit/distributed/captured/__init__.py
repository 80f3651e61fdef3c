"""Collectives and messages within compiled functions: nodes of graphs, and the rows they are."""
