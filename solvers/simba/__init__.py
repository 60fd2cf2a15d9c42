"""SIMBA: single rows and single columns (Hazan, Koren and Srebro 2011)."""
