use super::*;
use rustix::fs::open;
use std::path::Path;

fn referred(path: &Path) -> OwnedFd {
    open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).expect("opens")
}

fn inodes(folder: &Path) -> (Inodes, Arc<Inode>) {
    let (inodes, _) = Inodes::new(referred(folder)).expect("a folder");
    let root = inodes.get(ROOT).expect("the folder");
    (inodes, root)
}

fn told(inodes: &Inodes, root: &Inode, name: &str) -> (Arc<Inode>, FileAttr) {
    let at = DirectoryName { parent: root, name: OsStr::new(name) };
    inodes.told(refer(root, at.name).expect("opens"), at).expect("told")
}

fn held(inodes: &Inodes) -> usize {
    inodes.known().held
}

#[test]
fn a_file_is_one_by_all_of_its_names_until_it_is_forgotten() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [one, two] = ["one", "two"].map(|name| scratch.path().join(name));
    std::fs::write(&one, "x").expect("written");
    std::fs::hard_link(&one, &two).expect("linked");
    let (inodes, root) = inodes(scratch.path());
    let (first, _) = told(&inodes, &root, "one");
    let (second, attributes) = told(&inodes, &root, "two");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!((attributes.nlink, attributes.ino.0), (2, first.file.inode));
    inodes.forget(first.node, 1);
    assert!(inodes.get(first.node).is_ok());
    inodes.forget(first.node, 1);
    assert_eq!(inodes.get(first.node).expect_err("forgotten"), Errno::STALE);
    inodes.forget(ROOT, 1);
    assert!(inodes.get(ROOT).is_ok());
}

#[test]
fn what_is_not_held_any_more_is_found_again_under_its_last_name() {
    let scratch = tempfile::tempdir().expect("a folder");
    for number in 0..40 {
        std::fs::write(scratch.path().join(format!("{number}")), "x").expect("written");
    }
    let (inodes, root) = inodes(scratch.path());
    inodes.fit(20);
    let nodes: Vec<u64> =
        (0..40).map(|number| told(&inodes, &root, &number.to_string()).0.node).collect();
    // The folder is one of the ten.
    assert_eq!((held(&inodes), inodes.count()), (10, 41));
    for node in &nodes {
        assert_eq!(inodes.get(*node).expect("found again").file.inode, *node);
        assert!(held(&inodes) <= 11);
    }
    // Another file of that name is not it, nor is none.
    std::fs::rename(scratch.path().join("1"), scratch.path().join("0")).expect("renamed");
    assert_eq!(inodes.get(nodes[0]).expect_err("replaced"), Errno::STALE);
    assert_eq!(inodes.get(nodes[1]).expect_err("away"), Errno::STALE);
    let at = DirectoryName { parent: &root, name: OsStr::new("0") };
    inodes.renamed(refer(&root, at.name).expect("opens"), at);
    assert_eq!(inodes.get(nodes[1]).expect("found").node, nodes[1]);
}

#[test]
fn who_has_a_file_open_keeps_it_held() {
    let scratch = tempfile::tempdir().expect("a folder");
    for name in ["open", "a", "b", "c"] {
        std::fs::write(scratch.path().join(name), "x").expect("written");
    }
    let (inodes, root) = inodes(scratch.path());
    inodes.fit(2);
    let (open, _) = told(&inodes, &root, "open");
    for name in ["a", "b", "c"] {
        told(&inodes, &root, name);
    }
    std::fs::remove_file(scratch.path().join("open")).expect("removed");
    assert!(Arc::ptr_eq(&open, &inodes.get(open.node).expect("held")));
}

#[test]
fn a_number_that_was_given_to_another_file_is_not_taken_for_the_former() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (inodes, root) = inodes(scratch.path());
    std::fs::write(scratch.path().join("a"), "x").expect("written");
    let (a, _) = told(&inodes, &root, "a");
    let node = a.node;
    drop(a);
    let former = inodes.known().by_node.get_mut(&node).map(|entry| {
        entry.file.generation ^= 1;
        entry.inode.take()
    });
    assert!(former.is_some_and(|inode| inode.is_some()));
    inodes.known().held -= 1;
    assert_eq!(inodes.get(node).expect_err("another"), Errno::STALE);
    let (again, attributes) = told(&inodes, &root, "a");
    assert!(again.node != node && attributes.ino.0 == again.node);
    inodes.forget(node, 1);
    assert!(Arc::ptr_eq(&again, &inodes.get(again.node).expect("held")));
    assert_eq!(told(&inodes, &root, "a").0.node, again.node);
}

#[test]
fn those_that_were_told_of_the_longest_ago_are_forgotten_first() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (inodes, crowd) = Inodes::new(referred(scratch.path())).expect("a folder");
    let root = inodes.get(ROOT).expect("the folder");
    inodes.fit(16);
    let mut nodes = Vec::new();
    for number in 0..6 {
        let name = number.to_string();
        std::fs::write(scratch.path().join(&name), "x").expect("written");
        assert!(crowd.try_recv().is_err(), "{number}");
        nodes.push(told(&inodes, &root, &name).0.node);
    }
    assert!(crowd.try_recv().is_ok(), "more than six are too many");
    told(&inodes, &root, "0");
    // Seven are known, and four are few enough.
    assert_eq!(inodes.forgettable(512), nodes[1..4]);
    nodes[1..4].iter().for_each(|node| inodes.forget(*node, 1));
    assert_eq!(inodes.forgettable(512), Vec::<u64>::new());
}
