"""What can be walked or mirrored: tables, files, pages."""
