use super::*;

fn placed(table: &str, names: &[&str]) -> (Vec<Option<String>>, Placed) {
    let names: Vec<Vec<String>> =
        names.iter().map(|name| name.split_whitespace().map(str::to_string).collect()).collect();
    let table = Table::parse(table).expect("a table");
    let places = by_table(names.iter().map(Vec::as_slice), &table);
    (places.paths, places.placed)
}

const TABLE: &str = "fs/a.c\tone two show\nfs/b.c\tthree show\nmm/c.c\tfour show\n";

#[test]
fn names_and_neighbours_place_functions() {
    let names = ["one", "new", "two.isra.0", "newer", "three", "show", "newest", "four", "last"];
    let (paths, placed) = placed(TABLE, &names);
    let paths: Vec<&str> = paths.iter().map(|path| path.as_deref().unwrap_or("-")).collect();
    // `newer` lies between two files of one folder, `newest` between two folders, `last` at the end.
    assert_eq!(
        paths,
        ["fs/a.c", "fs/a.c", "fs/a.c", "fs/", "fs/b.c", "fs/b.c", "-", "mm/c.c", "-"]
    );
    let expected = Placed { by_debug: 0, by_name: 4, by_choice: 1, by_neighbours: 2, not: 2 };
    assert_eq!(placed, expected);
    assert_eq!(placed.all(), names.len());
}

#[test]
fn any_name_of_a_function_will_do_and_one_without_is_not_counted() {
    let (paths, placed) = placed(TABLE, &["alias four", ""]);
    assert_eq!(paths, [Some("mm/c.c".to_string()), None]);
    assert_eq!(placed.all(), 1);
}

#[test]
fn a_table_is_written_as_it_is_read() {
    let table = Table::parse(TABLE).expect("a table");
    assert_eq!(Table::parse(&table.text()).expect("a table"), table);
    assert!(matches!(Table::parse("fs/a.c\tone\nfs/b.c two\n"), Err(TableError::Line(2))));
}

#[test]
fn the_shipped_table_knows_the_kernel() {
    let shipped = Table::shipped().expect("it can be read");
    let file = |path: &str, name: &str| shipped.files[path].contains(name);
    assert!(file("fs/read_write.c", "vfs_read"));
    assert!(file("net/ipv4/tcp.c", "tcp_sendmsg"));
    assert!(file("mm/slub.c", "kmem_cache_alloc") || file("mm/slab_common.c", "kmem_cache_alloc"));
    let functions: usize = shipped.files.values().map(BTreeSet::len).sum();
    assert!((40_000..60_000).contains(&functions), "{functions}");
    assert!(shipped.files.keys().all(|path| path.contains('/') && !path.starts_with(['/', '.'])));
}
