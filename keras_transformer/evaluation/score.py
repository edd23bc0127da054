"""What a corpus score is: a number, and what it takes to get the same number again."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """A corpus score of translations.

    Attributes:
        value: float, between 0 and 100; `float(score)` gives it too.
        signature: str, sacrebleu's record of the choices behind the number; report it too.
        name: str, the metric; choices other than the default are part of it, such as
            "BLEU (lowercased)".
    """

    value: float
    signature: str
    name: str

    def __float__(self):
        return self.value

    def __str__(self):
        return f"{self.name} = {self.value:.2f} [{self.signature}]"
