import pytest
import torch
from torch import nn

from vsepp.models.encoders import build_encoder
from vsepp.models.encoders.torchvision import cut
from vsepp.spec import EncoderSpec


def make(name: str, size: int):
    spec = EncoderSpec(
        name="resnet",
        architecture=f"torchvision/{name}",
        weights="random",
        input_size=size,
        store_side=size,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    torch.manual_seed(0)
    return build_encoder(spec)


@pytest.mark.parametrize(
    ("name", "size", "dim"),
    [
        ("resnet18", 64, 512),
        pytest.param("mobilenet_v2", 64, 1280, marks=pytest.mark.slow),
        ("mobilenet_v3_small", 64, 1024),
        ("efficientnet_b0", 64, 1280),
        ("squeezenet1_1", 64, 512),
        ("densenet121", 64, 1024),
        pytest.param("shufflenet_v2_x0_5", 64, 1024, marks=pytest.mark.slow),
        pytest.param("convnext_tiny", 64, 768, marks=pytest.mark.slow),
        pytest.param("regnet_y_400mf", 64, 440, marks=pytest.mark.slow),
        ("vit_b_32", 64, 768),
        pytest.param("swin_t", 64, 768, marks=pytest.mark.slow),
        pytest.param("googlenet", 64, 1024, marks=pytest.mark.slow),
        pytest.param("inception_v3", 96, 2048, marks=pytest.mark.slow),
        pytest.param("maxvit_t", 224, 512, marks=pytest.mark.slow),
        pytest.param("resnet152", 64, 2048, marks=pytest.mark.slow),
        pytest.param("vgg19", 64, 4096, marks=pytest.mark.slow),
    ],
)
def test_the_penultimate_layer_of_every_family(name, size, dim):
    encoder = make(name, size).eval()
    with torch.no_grad():
        features = encoder(torch.randn(2, 3, size, size))
    assert encoder.dim == dim
    assert features.shape == (2, dim)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "efficientnet_b0"])
def test_the_feature_is_what_the_classifier_would_read(name):
    import torchvision

    model = torchvision.models.get_model(name, weights=None).eval()
    classifier = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    pixels = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        expected = model(pixels)
        made = cut(model)
        features = made.network(pixels)
        torch.testing.assert_close(classifier(features), expected)
    assert made.dim == classifier.in_features


def test_vgg_gives_fc7_after_its_relu_and_keeps_the_dropout_for_training_alone():
    encoder = make("vgg11", 32)
    pixels = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        features = encoder.eval()(pixels)
        dropped = encoder.train()(pixels)
    assert features.shape == (2, 4096)
    assert (features >= 0).all()
    share = (features == 0).float().mean()
    assert 0.3 < share < 0.7, "half of FC7's units are off after the ReLU"
    assert (dropped == 0).float().mean() > share + 0.15
    last = [module for module in encoder.network.classifier if not isinstance(module, nn.Identity)]
    assert isinstance(last[-1], nn.Dropout)
    assert isinstance(last[-2], nn.ReLU)
