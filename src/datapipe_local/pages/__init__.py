"""What a person sees in a browser: HTML without scripts, and without anything from elsewhere."""
