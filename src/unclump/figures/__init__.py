"""Figures of tables and codes: the numbers behind them, and matplotlib plots."""
