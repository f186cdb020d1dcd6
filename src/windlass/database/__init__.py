"""One database: transactions, what differs between databases, tables, migrations, numbers."""
