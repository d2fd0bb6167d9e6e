"""Train the encoder of images that comes with the zoo, without a label, and write its weights.

    python benchmarks/pretrain_images.py

SimCLR (arXiv 2002.05709): two views of an image, turned, moved, scaled and sheared at random, are
to be nearer to each other than to the views of all other images of the batch. What is kept is the
encoder without the head that the loss is of. The images are the 10,000 of `mnist10k`.
"""

import math

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from zoo.data.load.images import ENCODER, encoder
from zoo.system.cache import data_file
from zoo.system.files import write_whole

EPOCHS, BATCH, RATE, TEMPERATURE = 40, 500, 2e-3, 0.2


def view(x: Tensor) -> Tensor:
    """Return images (N, 1, H, W), each turned by up to 20 degrees, moved, scaled and sheared."""
    count = len(x)
    angle, across, down, scale, shear = (
        (2 * torch.rand(count) - 1) * most for most in (math.pi / 9, 0.2, 0.2, 0.2, 0.3)
    )
    cos, sin = angle.cos() * (1 + scale), angle.sin() * (1 + scale)
    rows = torch.stack([cos, -sin + shear, across, sin, cos, down], dim=1).view(count, 2, 3)
    grid = functional.affine_grid(rows, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def contrast(a: Tensor, b: Tensor) -> Tensor:
    """Return the loss of two views (N, D) each: NT-Xent, equation 1."""
    z = functional.normalize(torch.cat([a, b]), dim=1)
    scores = (z @ z.T / TEMPERATURE).fill_diagonal_(-math.inf)
    return functional.cross_entropy(scores, torch.arange(len(z)).roll(len(a)))


def main() -> None:
    """Train, and write the weights in half precision."""
    torch.manual_seed(0)
    with np.load(data_file("mnist10k.npz", "MNIST's 10,000 test images")) as stored:
        images = torch.from_numpy(stored["images"])[:, None].float() / 255
    network, head = encoder(), nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    learning = [*network.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(learning, lr=RATE, weight_decay=1e-4)
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, total_steps=EPOCHS * len(images) // BATCH
    )
    for epoch in tqdm(range(EPOCHS), unit="epoch"):
        for rows in torch.randperm(len(images)).split(BATCH):
            loss = contrast(*(head(network(view(images[rows]))) for _ in range(2)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            pace.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    weights = {name: each.half() for name, each in network.state_dict().items()}
    write_whole(ENCODER, lambda draft: save_file(weights, draft))
    print(f"written: {ENCODER}, {ENCODER.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
