"""Objects of classes: their fields, what refers to them, what is watched and kept."""
