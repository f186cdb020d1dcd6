"""What has changed, for pages that stay up to date."""
