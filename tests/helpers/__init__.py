"""What several tests share; no file here is collected."""
