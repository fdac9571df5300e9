//! Stretches of a file: what was read or written of it, as far as it is remembered.

use weigh_schema::io::Stretch;

/// More of them are not remembered.
const MOST: usize = 64;

/// How many bytes two lists of stretches have in common. Those of one list do not touch each other.
pub fn common(one: &[Stretch], other: &[Stretch]) -> u64 {
    let both = |a: &Stretch, b: &Stretch| a.to.min(b.to).saturating_sub(a.from.max(b.from));
    one.iter().map(|a| other.iter().map(|b| both(a, b)).sum::<u64>()).sum()
}

/// Takes stretches in; returns how many were forgotten for want of room.
pub fn join(known: &mut Vec<Stretch>, more: &[Stretch]) -> u64 {
    known.extend_from_slice(more);
    known.sort_unstable();
    let mut joined: Vec<Stretch> = Vec::with_capacity(known.len());
    for stretch in known.drain(..) {
        match joined.last_mut() {
            Some(last) if stretch.from <= last.to => last.to = last.to.max(stretch.to),
            _ => joined.push(stretch),
        }
    }
    let mut forgotten = 0;
    while joined.len() > MOST {
        let shortest = joined.iter().enumerate().min_by_key(|(_, s)| s.to - s.from);
        let Some((place, _)) = shortest else { break };
        joined.remove(place);
        forgotten += 1;
    }
    *known = joined;
    forgotten
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(list: &[(u64, u64)]) -> Vec<Stretch> {
        list.iter().map(|(from, to)| Stretch { from: *from, to: *to }).collect()
    }

    #[test]
    fn what_touches_becomes_one() {
        let mut known = stretches(&[(10, 20), (30, 40)]);
        assert_eq!(join(&mut known, &stretches(&[(20, 30), (50, 60)])), 0);
        assert_eq!(known, stretches(&[(10, 40), (50, 60)]));
    }

    #[test]
    fn common_bytes_are_counted_once() {
        let (one, other) = (stretches(&[(0, 10), (20, 30)]), stretches(&[(5, 25)]));
        assert_eq!(common(&one, &other), 10);
        assert_eq!(common(&one, &[]), 0);
    }

    #[test]
    fn the_shortest_are_forgotten_and_counted() {
        let mut known = Vec::new();
        let many: Vec<Stretch> =
            (0..70).map(|i| Stretch { from: 100 * i, to: 100 * i + 1 + i }).collect();
        assert_eq!(join(&mut known, &many), 6);
        assert_eq!((known.len(), known[0].from), (MOST, 600));
    }
}
