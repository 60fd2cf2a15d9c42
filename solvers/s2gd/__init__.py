"""S2GD, S2GD+ and SVRG (Konecny and Richtarik 2013)."""
