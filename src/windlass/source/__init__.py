"""Sources: tables, numbers, files, web services, search indices: to be swept or mirrored."""
