"""What Herma promises to be fast at, measured: `make bench` (design, "Budgets for speed").

    python -m tests.benchmarks [--quick] [--write] [NAME …]

`lines` has one module per measurement, `peers` the systems that are measured beside Herma, `samples`,
`target` and `result` what a figure is, `report` how the figures are shown.  pytest collects nothing here.
"""
