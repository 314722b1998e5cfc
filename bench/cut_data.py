"""Cuts the first images out of CIFAR-10 (binary) or MNIST, for studies of few images and for short epochs."""
import gzip
import struct

CIFAR_RECORD = 3073


def is_cifar(data):
    """Returns whether the folder holds CIFAR-10; otherwise it should hold MNIST."""
    return (data / "test_batch.bin").exists()


def cut_data(data, to, images, tests):
    """Writes the first `images` training images and the first `tests` test images of the folder `data` to the folder `to`, in the
    same format."""
    to.mkdir(parents=True, exist_ok=True)
    (cut_cifar if is_cifar(data) else cut_mnist)(data, to, images, tests)


def cut_cifar(data, to, images, tests):
    batches = sorted(data.glob("data_batch_*.bin"))
    training = b"".join(batch.read_bytes() for batch in batches)[: images * CIFAR_RECORD]
    (to / "data_batch_1.bin").write_bytes(training)
    (to / "test_batch.bin").write_bytes((data / "test_batch.bin").read_bytes()[: tests * CIFAR_RECORD])


def cut_mnist(data, to, images, tests):
    for part, most in (("train", images), ("t10k", tests)):
        for kind, header, each in (("images-idx3-ubyte", 16, 784), ("labels-idx1-ubyte", 8, 1)):
            plain = data / f"{part}-{kind}"
            text = plain.read_bytes() if plain.exists() else gzip.decompress((data / f"{part}-{kind}.gz").read_bytes())
            count = min(most, struct.unpack(">I", text[4:8])[0])
            (to / f"{part}-{kind}").write_bytes(text[:4] + struct.pack(">I", count) + text[8:header] +
                                                text[header: header + count * each])
