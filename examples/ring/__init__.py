"""Two workers share the rows of one database; one of them is killed."""
