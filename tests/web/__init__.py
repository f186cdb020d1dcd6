"""The console's API, asked as a browser and as a program would ask it."""
