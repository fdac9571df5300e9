//! A program that tells its phases, regions and cells: `weigh run -- regions`, or `WEIGH_PROFILE=profile regions`.

fn exchange() {
    let _region = libweigh::region!("exchange");
    std::hint::black_box(());
}

fn solve(cells: i64) {
    let _region = libweigh::region!("solve");
    exchange();
    libweigh::name!("cells").count(cells);
}

fn main() {
    libweigh::metadata("input", "case-7");
    for iteration in 0..10 {
        let _phase = libweigh::name!("iteration").phase(iteration);
        solve(4096);
        libweigh::name!("residual").tell(1.0 / (iteration + 1) as f64);
        libweigh::publish();
    }
    println!("done");
}
