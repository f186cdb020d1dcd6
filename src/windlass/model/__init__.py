"""What is true: values, states and rules. Nothing here touches a database, a thread or a clock."""
