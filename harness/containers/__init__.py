"""What real hosts are made of: the images that containers start from, and what goes into them."""
