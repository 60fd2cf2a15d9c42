import numpy as np

rows = np.loadtxt("rows.csv", delimiter=",", skiprows=1)
labels = np.digitize(rows[:, -1], np.quantile(rows[:, -1], [0.3, 0.6]))
names = ",".join(f"x{j}" for j in range(8)) + ",label"
classes = np.column_stack([rows[:, :-1], labels])
np.savetxt("classes.csv", classes, fmt="%.17g", delimiter=",", header=names, comments="")
