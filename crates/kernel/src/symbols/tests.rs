use super::*;

fn said(text: &str) -> String {
    Symbols::parse(text.as_bytes()).expect_err("it is refused").to_string()
}

#[test]
fn kinds_are_told_and_modules_left_out() {
    let text = "ffffffff81000000 T _text\nffffffff82000000 r table\n0000000000000000 A fixed\n\
                ffffffff81000010 w weak\nffffffffc0000000 t other\t[module]\n";
    let symbols = Symbols::parse(text.as_bytes()).expect("symbols");
    let found: Vec<_> = symbols.list().iter().map(|s| (s.name.as_str(), s.kind)).collect();
    assert_eq!(
        found,
        [
            ("_text", SymbolContent::Code),
            ("weak", SymbolContent::Code),
            ("table", SymbolContent::Data)
        ]
    );
    assert_eq!(symbols.address("weak"), Some(0xffff_ffff_8100_0010));
}

#[test]
fn each_fault_is_named() {
    assert!(said("ffffffff81000000 T\n").starts_with("line 1 is \"ffffffff81000000 T\""));
    assert!(said("ffffffff81000000 T _text\nnonsense here too\n").starts_with("line 2 is"));
    let stub =
        "ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n";
    assert!(said(stub).starts_with("line 1 is"), "Debian's System.map is none");
    assert!(
        said("0000000000000000 T _text\n0000000000000000 t other\n")
            .contains("the kernel hides them")
    );
    assert!(said("ffffffff81000000 T other\n").contains("no symbol `_text`"));
    assert!(said("").contains("no symbol `_text`"));
}
