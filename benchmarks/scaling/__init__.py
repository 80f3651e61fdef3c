"""What training on several processes costs: formulas beside what is measured. `tables.main` prints
them; the page is docs/scaling.md."""
