"""The sphere: points, circles, draws and laws."""
