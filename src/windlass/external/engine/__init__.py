"""External systems at work: submitting tasks, and polling for their ends."""
