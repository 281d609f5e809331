"""Folders of images: order, classes, odd names, links, and what is refused."""

import os
import sys

import numpy as np
import pytest

from commands import draw
from nearkin.images import LLC, ImageFolder
from nearkin.images.folder import SUFFIXES, sources_of


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def relative(folder, root):
    return [os.path.relpath(path, root).replace(os.sep, "/") for path in folder.paths]


def test_order_is_by_class_then_path(tmp_path):
    names = ["b/2.png", "b/10.png", "a/z.JPG", "a/deep/er/x.png", "a b/q.webp", "B/1.gif"]
    touch(tmp_path, *names)
    folder = ImageFolder(tmp_path)
    assert relative(folder, tmp_path) == [
        "B/1.gif",
        "a/deep/er/x.png",
        "a/z.JPG",
        "a b/q.webp",
        "b/10.png",
        "b/2.png",
    ]
    assert folder.labels.tolist() == ["B", "a", "a", "a b", "b", "b"]
    assert folder.classes.tolist() == ["B", "a", "a b", "b"]
    assert len(folder) == 6
    assert repr(folder) == "<ImageFolder: 6 images in 4 classes>"


def test_files_with_an_image_suffix_are_rows(tmp_path):
    good = [f"c/{i}{end}" for i, end in enumerate(SUFFIXES)]
    touch(
        tmp_path, *good, "c/notes.txt", "c/noending", "c/.hidden.png", "c/Thumbs.db", ".git/x.png"
    )
    assert relative(ImageFolder(tmp_path), tmp_path) == sorted(good)


def test_unicode_and_spaces(tmp_path):
    names = ["große Katze/bild 1.png", "子猫/写真.png", "it's; $HOME/%20,x.png"]
    touch(tmp_path, *names)
    assert set(ImageFolder(tmp_path).classes) == {"große Katze", "子猫", "it's; $HOME"}


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_names_that_are_not_text(tmp_path):
    os.makedirs(os.fsencode(tmp_path) + b"/c\xff")
    with open(os.fsencode(tmp_path) + b"/c\xff/i\xfe.png", "wb"):
        pass
    folder = ImageFolder(tmp_path)
    assert len(folder) == 1
    assert os.path.exists(folder.paths[0])


def test_empty_classes_and_loose_images_are_warned_of(tmp_path):
    touch(tmp_path, "cat/1.png", "empty/readme.txt", "loose.png")
    (tmp_path / "void").mkdir()
    with pytest.warns(UserWarning, match="sub-folder") as told:
        folder = ImageFolder(tmp_path)
    assert folder.classes.tolist() == ["cat"]
    assert [str(warning.message) for warning in told] == [
        "2 sub-folders hold no images and are not classes: empty, void",
        "1 images lie outside any sub-folder, have no class and are left out",
    ]
    assert all(warning.filename == __file__ for warning in told)


def test_links_are_followed_but_not_in_circles(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    touch(root, "cat/1.png", "dog/1.png")
    touch(elsewhere, "2.png", "3.png")
    (root / "cat" / "linked").symlink_to(elsewhere)
    (root / "cat" / "again").symlink_to(elsewhere)
    (root / "cat" / "up").symlink_to(root)
    (root / "cat" / "self").symlink_to(root / "cat")
    (root / "mouse").symlink_to(elsewhere)
    (root / "dog" / "file.png").symlink_to(elsewhere / "2.png")
    assert relative(ImageFolder(root), root) == [
        "cat/1.png",
        "cat/again/2.png",
        "cat/again/3.png",
        "dog/1.png",
        "dog/file.png",
        "mouse/2.png",
        "mouse/3.png",
    ]


def test_dangling_links_are_rows_and_pipes_are_not(tmp_path):
    touch(tmp_path, "cat/1.png")
    (tmp_path / "cat" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    assert relative(ImageFolder(tmp_path), tmp_path) == ["cat/1.png", "cat/gone.png"]


def test_refusals(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"root='.*missing'.*nothing there"):
        ImageFolder(tmp_path / "missing")
    touch(tmp_path, "file.png")
    with pytest.raises(NotADirectoryError, match="it is a file"):
        ImageFolder(tmp_path / "file.png")
    with pytest.raises(ValueError, match=r"no images in its 0 sub-folders \(1 directly in it\)"):
        ImageFolder(tmp_path)


def test_rows_of_a_folder(tmp_path):
    touch(tmp_path, "a/1.png", "a/2.png", "b/1.png")
    folder = ImageFolder(tmp_path)
    assert folder[folder.labels == "a"].labels.tolist() == ["a", "a"]
    assert folder[[2, 0]].paths == [folder.paths[2], folder.paths[0]]
    assert folder[np.array([1])].labels.tolist() == ["a"]
    assert folder[1:].classes.tolist() == ["a", "b"]
    assert len(folder[-1]) == 1
    with pytest.raises(IndexError):
        folder[7]


def test_csv(tmp_path):
    touch(tmp_path, "x/2.png", "x/1, with comma.png")
    (tmp_path / "list.csv").write_text(
        'x/2.png,dog\n\n"x/1, with comma.png", cat \n/abs/é.png,dog\n'
    )
    folder = ImageFolder.from_csv(tmp_path / "list.csv")
    assert folder.paths == [
        "/abs/é.png",
        str(tmp_path / "x/1, with comma.png"),
        str(tmp_path / "x/2.png"),
    ]
    assert folder.labels.tolist() == ["dog", "cat", "dog"]


def test_csv_with_header_and_byte_order_mark(tmp_path):
    (tmp_path / "list.csv").write_bytes("\ufefflabel,id,path\r\ncat,7,é.png\r\n".encode())
    folder = ImageFolder.from_csv(tmp_path / "list.csv")
    assert (folder.paths, folder.labels.tolist()) == ([str(tmp_path / "é.png")], ["cat"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("path,label\n", "no rows"),
        ("a.png,cat\nb.png\n", r"line 2: expected path,label, got \['b.png'\]"),
        ("a.png,\n", "line 1"),
        ("a.png,cat\na.png,dog\n", "1 images are listed more than once"),
    ],
)
def test_csv_refusals(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        ImageFolder.from_csv(tmp_path / "list.csv")


def test_what_counts_as_images(tmp_path):
    assert sources_of(["a.png", tmp_path]) == ["a.png", tmp_path]
    with pytest.raises(TypeError, match="single path"):
        sources_of("a.png")
    with pytest.raises(TypeError, match="images holds ndarray"):
        sources_of(np.zeros((3, 4)))
    with pytest.raises(TypeError, match="images holds int: expected an ImageFolder"):
        sources_of(3)
    with pytest.raises(ValueError, match="images is empty"):
        sources_of([])


def test_links_to_themselves_are_reported_as_unreadable(tmp_path):
    draw(tmp_path)
    for name in ("loop.png", "loop"):
        (tmp_path / "lying" / name).symlink_to(name)
    (tmp_path / "loop").symlink_to("loop")
    folder = ImageFolder(tmp_path)
    assert sum(path.endswith("loop.png") for path in folder.paths) == 1
    assert len(folder.classes) == 3
    encoder = LLC(8, random_state=0).fit(folder[:4])
    with pytest.warns(UserWarning, match="1 of 49 images could not be used"):
        encoder.transform(folder, on_error="skip")
    ((name, reason),) = encoder.failed_
    assert name.endswith("loop.png")
    assert "symbolic links" in reason


def test_a_list_that_is_not_utf_8(tmp_path):
    (tmp_path / "list.csv").write_bytes(b"a.png,caf\xe9\n")
    with pytest.raises(ValueError, match=r"list\.csv' must be a CSV file in UTF-8"):
        ImageFolder.from_csv(tmp_path / "list.csv")
