"""Label a table of sentences from two labels per class."""

import csv
import tempfile
from pathlib import Path

from laplacianshot import label_source

MESSAGES = {
    "card": [
        "I lost my card yesterday",
        "my credit card was stolen on the train",
        "please block my card, I cannot find it",
        "the card is gone, what should I do?",
        "somebody took my bank card",
        "I left my debit card in a shop",
        "how do I get a replacement card?",
        "my new card has not arrived",
    ],
    "transfer": [
        "the transfer has not arrived",
        "when will my money transfer be there?",
        "I sent money to the wrong account",
        "my wire transfer is still pending",
        "how long does a bank transfer take?",
        "can I cancel a transfer to my friend?",
        "the recipient did not receive the money I sent",
        "transfer to a foreign account failed",
    ],
    "password": [
        "I forgot my password",
        "how can I reset my password?",
        "I cannot log in to the app",
        "the login page says wrong password",
        "please send me a new passcode",
        "my account is locked after too many login attempts",
        "the app does not accept my password any more",
        "where do I change my login code?",
    ],
}

texts = [text for group in MESSAGES.values() for text in group]
truth = [name for name, group in MESSAGES.items() for _ in group]

with tempfile.TemporaryDirectory() as folder:
    table = Path(folder) / "messages.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for name, group in MESSAGES.items():
            for i, text in enumerate(group):
                writer.writerow([text, name if i < 2 else ""])  # two labels per class, the rest is blank

    result = label_source(table)

for label, confidence, text in zip(result.labels, result.confidence, texts, strict=True):
    print(f"{label:<10} {confidence:6.1%}  {text}")
correct = sum(label == name for label, name in zip(result.labels, truth, strict=True))
print(f"{correct} of {len(truth)} are right")
