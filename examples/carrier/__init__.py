"""A shop whose visits are carried to consumers by RabbitMQ."""
