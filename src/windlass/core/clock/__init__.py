"""Steps of the database's clock: recorded once for all workers, and what follows from them."""
