"""Values and rules that several parts use: pure, without any database."""
