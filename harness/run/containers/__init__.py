"""What runs on containers need before they begin: images, their contents, and containers that are kept."""
