"""How databases are reached: TLS, sockets, services, passwords, schemas, drivers."""
