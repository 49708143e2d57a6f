"""What pages share: colors, names, thumbnails and the map."""
