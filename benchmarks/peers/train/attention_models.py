"""dlpipe's transformers in PyTorch: the same sizes, norms before, scaled_dot_product_attention, tied head."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, heads, blocks):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads, True) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.norm(self.blocks(self.tokens(ids) + self.positions[: ids.shape[1]]))
        return functional.linear(x.flatten(0, 1), self.tokens.weight)

    def batch(self, count, size):
        ids = torch.randint(self.tokens.num_embeddings, (count, size + 1))
        return ids[:, :-1].contiguous(), ids[:, 1:].flatten()


def gpt_char():
    return Gpt(vocabulary=65, length=256, width=384, heads=6, blocks=6)


def gpt2_small():
    return Gpt(vocabulary=50257, length=1024, width=768, heads=12, blocks=12)


class VitSmallCifar(nn.Module):
    def __init__(self, classes=10, size=32, patch=4, width=384, heads=6, blocks=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.positions = nn.Parameter(torch.zeros((size // patch) ** 2, width))
        self.blocks = nn.Sequential(*[Block(width, heads, False) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))
