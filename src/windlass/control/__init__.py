"""The control table: a control run happens once at a time and remembers its steps."""
