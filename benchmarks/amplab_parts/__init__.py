"""What `catchment bench amplab` is made of."""
