"""The training loop that the torch libraries share: autocast, cross-entropy, fused Adam."""

import torch
from torch import nn
from workloads import PAD, Size, random_batches


class TorchTraining:
    """Trains a module whose call takes source and target (B, n) and returns logits (B, n, V).

    Args:
        make_model: function of a `Size` that returns the module.
        size: dict of `workloads.Size`.
        dtype: "float32", or "bfloat16" for autocast.
        compiled: whether `torch.compile` takes the forward pass and the loss.
        batches: int, how many different ones there are.
    """

    def __init__(self, make_model, size, dtype, compiled=False, batches=32):
        self.size = size = Size(**size)
        torch.manual_seed(0)
        self.model = make_model(size).train()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), 1e-4, betas=(0.9, 0.98), fused=True
        )
        self.criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
        self.autocast = dtype == "bfloat16"
        data = random_batches(size, batches)
        parts = (data.source, data.target, data.labels)
        self.batches = list(zip(*(torch.from_numpy(each).long() for each in parts), strict=True))
        self.step_loss = torch.compile(self._step_loss) if compiled else self._step_loss

    def _step_loss(self, source, target, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            logits = self.model(source, target)
        return self.criterion(
            logits.reshape(-1, self.size.vocabulary_size).float(), labels.reshape(-1)
        )

    def run(self, repeats):
        for batch in self.batches[:repeats]:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.step_loss(*batch)
            loss.backward()
            self.optimizer.step()
            self.loss = loss.item()

    def facts(self):
        parameters = sum(each.numel() for each in self.model.parameters())
        return {"parameters": parameters, "loss": self.loss}
