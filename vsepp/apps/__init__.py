"""What people call: the command line. It may import everything."""
