"""Encoders of torchvision give what their classifier would read."""

import pytest
import specs
import torch
from rounding import assert_near
from torch import nn

from vsepp.models.encoder import ImageEncoder, build_encoder
from vsepp.models.image.torchvision import cut


def spec_of(name, size):
    return specs.change(specs.ENCODER, architecture=f"torchvision/{name}", input_size=size)


def make(name: str, size: int):
    torch.manual_seed(0)
    return build_encoder(spec_of(name, size))


def whole_vgg19():
    """VGG19 with its classifier; drawing 144 million weights as torchvision does takes three times as long."""
    import torchvision

    with torch.device("meta"):
        model = torchvision.models.vgg19(weights=None)
    model = model.to_empty(device="cpu").eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 1e4
            # He et al. (2015), so that the activations do not fade on their way.
            parameter.uniform_(-((6 / fan_in) ** 0.5), (6 / fan_in) ** 0.5, generator=generator)
    return model


@pytest.mark.parametrize(
    ("name", "size", "dim"),
    [
        ("vgg19", 224, 4096),
        ("resnet152", 224, 2048),
        ("vit_b_16", 224, 768),
        ("mobilenet_v3_small", 64, 1024),
        ("efficientnet_b0", 64, 1280),
        ("densenet121", 64, 1024),
        ("swin_t", 64, 768),
        ("googlenet", 64, 1024),
        ("inception_v3", 96, 2048),
    ],
)
def test_the_penultimate_layer_of_every_family(name, size, dim):
    # Shapes alone: nothing is drawn or multiplied on this device.
    with torch.device("meta"):
        encoder = make(name, size).eval()
        features = encoder(encoder.normalise(torch.empty(2, size, size, 3, dtype=torch.uint8)))
    assert encoder.dim == dim
    assert features.shape == (2, dim)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("resnet18", 64),
        ("mobilenet_v3_small", 64),
        ("efficientnet_b0", 64),
        ("regnet_y_400mf", 64),
    ],
)
def test_the_feature_is_what_the_classifier_would_read(name, size):
    import torchvision

    model = torchvision.models.get_model(name, weights=None).eval()
    classifier = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    pixels = torch.randn(2, 3, size, size)
    with torch.inference_mode():
        expected = model(pixels)
        backbone = cut(model)
        features = backbone.network(pixels)
        assert_near(classifier(features), expected, 1e-4)
    assert backbone.dim == classifier.in_features


def test_vgg19_gives_fc7_after_its_relu_and_before_its_dropout():
    vgg19 = whole_vgg19()
    layers = vgg19.classifier[:5]
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear, nn.ReLU]
    # 64 pixels, a twelfth of the work: the pooling before FC6 brings any size to 7×7.
    pixels = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        by_hand = layers(torch.flatten(vgg19.avgpool(vgg19.features(pixels)), 1))
        scores = vgg19(pixels)
        fc8 = vgg19.classifier[6]
        encoder = ImageEncoder(spec_of("vgg19", 64), cut(vgg19))
        features = encoder.eval()(pixels)
        class_scores = fc8(features)
        dropped = encoder.train()(pixels)
    # The encoder lays its pixels out channels last, so sums are taken in another order.
    assert_near(features, by_hand, 1e-4)
    assert_near(class_scores, scores, 1e-4)
    assert features.shape == (2, 4096) == (2, encoder.dim)
    off = (features == 0).float().mean()
    assert (features >= 0).all()
    assert 0.3 < off < 0.7, "half of FC7's units are off after the ReLU"
    assert (dropped == 0).float().mean() > off + 0.15, "the dropout acts in training mode"
