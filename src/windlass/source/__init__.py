"""Sources: tables, numbers, files and web services that can be swept or mirrored."""
