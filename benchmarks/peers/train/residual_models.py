"""ResNets in plain PyTorch, for a machine whose PyTorch comes without torchvision: its names, shapes and values
(He and others, 2015, with the stride in the 3x3 convolution)."""

import torch
from torch import nn


def convolution(channels, out, side, stride=1):
    return nn.Conv2d(channels, out, side, stride, padding=side // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3, 1x1 that widens four times, and the input added."""

    def __init__(self, channels, width, stride, is_bottleneck):
        super().__init__()
        out = 4 * width if is_bottleneck else width
        shapes = [(channels, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        if not is_bottleneck:
            shapes = [(channels, width, 3, stride), (width, width, 3, 1)]
        self.count = len(shapes)
        for number, shape in enumerate(shapes, 1):
            self.add_module(f"conv{number}", convolution(*shape))
            self.add_module(f"bn{number}", nn.BatchNorm2d(shape[1]))
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(convolution(channels, out, 1, stride), nn.BatchNorm2d(out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x
        for number in range(1, self.count + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            y = self.relu(y) if number < self.count else y
        return self.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, is_bottleneck, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(64), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = 64
        for group, count in enumerate(blocks):
            width, layers = 64 << group, []
            for number in range(count):
                layers.append(Block(channels, width, 2 if group > 0 and number == 0 else 1, is_bottleneck))
                channels = 4 * width if is_bottleneck else width
            self.add_module(f"layer{group + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.mean(x, dim=(2, 3)))


def resnet18(num_classes=1000):
    return ResNet([2, 2, 2, 2], False, num_classes)


def resnet34(num_classes=1000):
    return ResNet([3, 4, 6, 3], False, num_classes)


def resnet50(num_classes=1000):
    return ResNet([3, 4, 6, 3], True, num_classes)
