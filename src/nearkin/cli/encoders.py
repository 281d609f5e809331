"""Encoders of images: their options, and encoders made or loaded from them."""

from pathlib import Path
from typing import Annotated, Any

import typer

Onnx = Annotated[Path | None, typer.Option(help="ONNX network to use instead of LLC.")]
Output = Annotated[
    str | None,
    typer.Option(help="Output of the network; without it, an error lists them and suggests one."),
]
Mean = Annotated[
    str | None,
    typer.Option(
        help="A pixel v of 0…255 becomes (v - mean) / scale: one number, or three, from the "
        "network's model card ('mean' and 'std'), times 255 if below 1. Most of torchvision and "
        "timm: 123.7,116.3,103.5. By default 127, as for EfficientNet-Lite and MobileNet."
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(help="See --mean. Most of torchvision and timm: 58.4,57.1,57.4. By default 128."),
]
Words = Annotated[int, typer.Option(help="Words of the LLC codebook.")]


def load_encoder(path: Path) -> Any:
    """The encoder in a file."""
    import nearkin

    encoder = nearkin.load(path)
    if not hasattr(encoder, "encode"):
        raise ValueError(
            f"--encoder {path} holds a {type(encoder).__name__}, not an encoder of images; "
            "'nearkin features' writes one"
        )
    return encoder


def onnx_encoder(
    path: Path, output: str | None, mean: str | None, scale: str | None, **options: Any
) -> Any:
    """An ONNX encoder; `mean` and `scale` are one number or comma-separated numbers."""
    from nearkin.images import OnnxEncoder

    for name, text in (("mean", mean), ("scale", scale)):
        if text is not None:
            values = parse_numbers(text, name, float)
            options[name] = values[0] if len(values) == 1 else values
    return OnnxEncoder(str(path.absolute()), output=output, **options).fit()


def parse_numbers(text: str, name: str, kind: type) -> tuple[Any, ...]:
    """Comma-separated numbers of the option `name`."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{name} {text!r}: comma-separated numbers are expected") from None
