"""The settings of the project, its URLs and its servers."""
