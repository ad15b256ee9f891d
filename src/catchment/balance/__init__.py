"""Balance and shed load by what sketches learn of it. Pure: no clock, no socket, no Spark."""
