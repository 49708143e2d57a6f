"""The practitioner's job: a source and a few labels in, every label out."""
