//! What a build takes from elsewhere is the very thing that was looked at, and what goes into an image is what it is
//! built from.

use crate::support::shipped::file;

/// A tag or a branch of somebody else's can be moved, a commit cannot.
#[test]
fn every_action_of_the_workflows_is_named_by_its_commit() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/.github/workflows");
    let mut actions = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.contains("uses: ")) {
            let (_, action) = line.split_once("uses: ").unwrap();
            if action.starts_with("./") {
                continue; // this repository's own
            }
            let (commit, version) = action.split_once('@').unwrap().1.split_once(" # ").expect(line);
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(!version.is_empty(), "{line}");
            actions += 1;
        }
    }
    assert!(actions > 20, "{actions}");
}

/// A tag can be moved, a digest cannot. (The real servers of the workflow are the newest of their version on purpose.)
#[test]
fn every_image_is_named_by_its_digest() {
    let mut images = 0;
    for (name, before) in [
        ("compose.yaml", "image: "),
        ("deploy/container/Dockerfile", "FROM "),
        ("deploy/container/Dockerfile", "ARG BASE="),
    ] {
        let text = file(name);
        for image in
            text.lines().filter_map(|line| line.trim().strip_prefix(before)).filter(|image| !image.starts_with('$'))
        {
            let (_, digest) = image.split_once("@sha256:").expect(image);
            let digest = digest.split(' ').next().unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}: {image}");
            images += 1;
        }
    }
    assert_eq!(images, 6);
}

/// Everything is left out of an image's context but what is named.
#[test]
fn an_image_gets_no_more_of_a_checkout_than_it_is_built_from() {
    let ignore = file(".dockerignore");
    let mut lines = ignore.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some("**"));
    let taken: Vec<&str> = lines.filter_map(|line| line.strip_prefix('!')).collect();
    // Cargo reads the manifest of every member, whatever it builds.
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        assert!(taken.contains(&member.as_str().unwrap()), "{member:?} is not in the image's context");
    }
    assert!(taken.contains(&"src"));
    let allowed = ["LICENSE-*", ".ci/third-party-licenses"];
    assert!(
        taken.iter().all(|name| !name.starts_with('.') && !name.contains('*') || allowed.contains(name)),
        "{taken:?}"
    );
}
