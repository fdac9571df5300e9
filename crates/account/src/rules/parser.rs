//! From text to a checked expression: `rate(node_disk_busy_seconds_total, 30s) > 90% and …`.
//!
//! Reads text and the names of metrics; emits a [`Truth`] or a [`Number`]. Refuses names that do not exist, units that
//! cannot be compared, a rate of what is no counter; with the place, and what to type.

use weigh_schema::{MetricKind, nearest};

use super::dimension::Dimension;
use super::error::{ExpressionError, Span};
use super::expression::{
    Arithmetic, Comparison, Expression, MetricId, MetricUse, Number, Spanned, Truth,
};
use super::metric_table::MetricTable;
use super::tokens::{Token, Tokens};

/// The most operators and brackets of an expression: parsing and judging go down by one call each.
const MOST_PARTS: usize = 48;
/// The longest expression, in bytes.
const LONGEST: usize = 4096;
/// The longest window, in seconds: a day.
const LONGEST_WINDOW: f64 = 86_400.0;
/// The shortest window, in seconds.
const SHORTEST_WINDOW: f64 = 1.0;

type Answer<T> = Result<T, ExpressionError>;

/// How a metric's scope follows from the rule's.
pub(super) type ScopeCheck<'a> = &'a dyn Fn(&MetricTable, MetricId) -> Result<bool, String>;

/// Reads a condition.
pub(super) fn condition(
    text: &str,
    metrics: &mut MetricTable,
    scope: ScopeCheck<'_>,
) -> Answer<Truth> {
    match Parser::new(text, metrics, scope)?.whole()? {
        (Expression::Truth(truth), _) => Ok(truth),
        (Expression::Number(..), span) => Err(ExpressionError::new(
            span,
            "it is a number: expected a comparison, such as NUMBER > 10",
        )),
    }
}

/// Reads a number, and its unit.
pub(super) fn number(
    text: &str,
    metrics: &mut MetricTable,
    scope: ScopeCheck<'_>,
) -> Answer<(Number, Dimension)> {
    match Parser::new(text, metrics, scope)?.whole()? {
        (Expression::Number(number, dimension), _) => Ok((number, dimension)),
        (Expression::Truth(_), span) => {
            Err(ExpressionError::new(span, "it is a comparison: expected a number"))
        }
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    next: (Token<'a>, Span),
    metrics: &'a mut MetricTable,
    scope: ScopeCheck<'a>,
    parts: usize,
}

const FUNCTIONS: [&str; 3] = ["rate", "slope", "seconds_to"];

impl<'a> Parser<'a> {
    fn new(
        text: &'a str,
        metrics: &'a mut MetricTable,
        scope: ScopeCheck<'a>,
    ) -> Answer<Parser<'a>> {
        if text.len() > LONGEST {
            let message = format!("it has {} bytes: expected {LONGEST} at most", text.len());
            return Err(ExpressionError::new(Span::default(), message));
        }
        let mut tokens = Tokens::new(text);
        let next = tokens.next()?;
        Ok(Parser { tokens, next, metrics, scope, parts: 0 })
    }

    fn whole(mut self) -> Answer<Spanned> {
        let found = self.either()?;
        match self.next.0 {
            Token::End => Ok(found),
            _ => Err(self.unexpected("a comparison, an operator, 'and', 'or' or the end")),
        }
    }

    fn advance(&mut self) -> Answer<Span> {
        let span = self.next.1;
        self.next = self.tokens.next()?;
        Ok(span)
    }

    fn eat(&mut self, mark: &str) -> Answer<bool> {
        let found = matches!(self.next.0, Token::Mark(next) if next == mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn need(&mut self, mark: &str, expected: &str) -> Answer<()> {
        if self.eat(mark)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> ExpressionError {
        let instead = match &self.next.0 {
            Token::Mark("=") => "; two values are compared with ==",
            Token::Mark("&&" | "&") => "; two conditions are joined by 'and'",
            Token::Mark("||") => "; two conditions are joined by 'or'",
            Token::Mark("!") => "; a comparison can be turned round: < for >=, != for ==",
            Token::End => " before the end",
            _ => "",
        };
        ExpressionError::new(self.next.1, format!("expected {expected}{instead}"))
    }

    /// A chain is a tree as deep as it is long.
    fn count_part(&mut self) -> Answer<()> {
        self.parts += 1;
        match self.parts > MOST_PARTS {
            true => Err(ExpressionError::new(
                self.next.1,
                format!("it is too long: expected {MOST_PARTS} operators and brackets at most"),
            )),
            false => Ok(()),
        }
    }

    fn either(&mut self) -> Answer<Spanned> {
        let mut left = self.both()?;
        while self.next.0 == Token::Name("or") {
            self.count_part()?;
            self.advance()?;
            let right = self.both()?;
            left = join(left, right, Truth::Or)?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Answer<Spanned> {
        let mut left = self.comparison()?;
        while self.next.0 == Token::Name("and") {
            self.count_part()?;
            self.advance()?;
            let right = self.comparison()?;
            left = join(left, right, Truth::And)?;
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Answer<Spanned> {
        let left = self.sum()?;
        let Token::Mark(mark) = self.next.0 else { return Ok(left) };
        let Some((_, how)) = Comparison::MARKS.iter().find(|(known, _)| *known == mark) else {
            return Ok(left);
        };
        self.advance()?;
        let right = self.sum()?;
        let span = left.1.to(right.1);
        let ((left, a), (right, b)) = (as_number(left)?, as_number(right)?);
        if a.joined(b).is_none() {
            return Err(ExpressionError::new(span, mismatch("compared", a, b)));
        }
        let truth = Truth::Compare { how: *how, left, right, dimension: a };
        Ok((Expression::Truth(truth), span))
    }

    fn sum(&mut self) -> Answer<Spanned> {
        let mut left = self.product()?;
        loop {
            let how = match self.next.0 {
                Token::Mark("+") => Arithmetic::Plus,
                Token::Mark("-") => Arithmetic::Minus,
                _ => return Ok(left),
            };
            self.count_part()?;
            self.advance()?;
            let right = self.product()?;
            left = pair(how, left, right)?;
        }
    }

    fn product(&mut self) -> Answer<Spanned> {
        let mut left = self.single()?;
        loop {
            let how = match self.next.0 {
                Token::Mark("*") => Arithmetic::Times,
                Token::Mark("/") => Arithmetic::DividedBy,
                _ => return Ok(left),
            };
            self.count_part()?;
            self.advance()?;
            let right = self.single()?;
            left = pair(how, left, right)?;
        }
    }

    fn single(&mut self) -> Answer<Spanned> {
        match self.next.0.clone() {
            Token::Number(value, dimension) => {
                let span = self.advance()?;
                Ok((Expression::Number(Number::Constant(value), dimension), span))
            }
            Token::Mark("-") => {
                self.count_part()?;
                let begin = self.advance()?;
                let of = self.single()?;
                let span = begin.to(of.1);
                let (number, dimension) = as_number(of)?;
                Ok((Expression::Number(Number::Negative(Box::new(number)), dimension), span))
            }
            Token::Mark("(") => {
                self.count_part()?;
                let begin = self.advance()?;
                let (inner, _) = self.either()?;
                let end = self.next.1;
                self.need(")", "a ')'")?;
                Ok((inner, begin.to(end)))
            }
            Token::Name(name) => self.name(name),
            _ => Err(self.unexpected("a metric, a number, a function or a '('")),
        }
    }

    fn name(&mut self, name: &str) -> Answer<Spanned> {
        let span = self.advance()?;
        match name {
            "cores" => Ok((
                Expression::Number(Number::Cores, Dimension::of(weigh_schema::Unit::Cores)),
                span,
            )),
            _ if self.next.0 == Token::Mark("(") => self.function(name, span),
            _ => {
                let (metric, dimension) = self.metric(name, span)?;
                Ok((Expression::Number(Number::Value(metric), dimension), span))
            }
        }
    }

    fn metric(&mut self, name: &str, span: Span) -> Answer<(MetricUse, Dimension)> {
        let id = self.metrics.find(name).map_err(|near| {
            let message = match FUNCTIONS.contains(&name) || ["and", "or"].contains(&name) {
                true => format!("expected a metric, found the word '{name}'"),
                false => format!("there is no metric '{name}'"),
            };
            ExpressionError::new(span, message).near(near)
        })?;
        let is_of_node = (self.scope)(&*self.metrics, id)
            .map_err(|message| ExpressionError::new(span, message))?;
        Ok((MetricUse { id, is_of_node }, Dimension::of(self.metrics.get(id).unit)))
    }

    fn function(&mut self, name: &str, begin: Span) -> Answer<Spanned> {
        if !FUNCTIONS.contains(&name) {
            let near = nearest(name, FUNCTIONS).into_iter().map(str::to_string).collect();
            let message =
                format!("there is no function '{name}': expected rate, slope or seconds_to");
            return Err(ExpressionError::new(begin, message).near(near));
        }
        self.count_part()?;
        self.need("(", "a '('")?;
        let (metric, dimension, span) = match self.next.0.clone() {
            Token::Name(of) if of != "cores" => {
                let span = self.advance()?;
                let (metric, dimension) = self.metric(of, span)?;
                (metric, dimension, span)
            }
            _ => return Err(self.unexpected("the name of a metric")),
        };
        let found = match name {
            "rate" => self.rate(metric, dimension, span)?,
            "slope" => {
                self.need(",", "',' and a window, as in slope(METRIC, 5min)")?;
                let window = self.window(metric)?;
                (Number::Slope(metric, window), dimension.rate())
            }
            _ => self.seconds_to(metric, dimension)?,
        };
        let end = self.next.1;
        self.need(")", "a ')'")?;
        Ok((Expression::Number(found.0, found.1), begin.to(end)))
    }

    fn rate(
        &mut self,
        metric: MetricUse,
        dimension: Dimension,
        span: Span,
    ) -> Answer<(Number, Dimension)> {
        let used = self.metrics.get(metric.id);
        if used.kind != MetricKind::Counter {
            let message = format!(
                "{} is no counter, it goes up and down: expected slope({}, 1min)",
                used.name, used.name
            );
            return Err(ExpressionError::new(span, message));
        }
        let window = match self.eat(",")? {
            true => Some(self.window(metric)?),
            false => None,
        };
        Ok((Number::Rate(metric, window), dimension.rate()))
    }

    fn seconds_to(
        &mut self,
        metric: MetricUse,
        dimension: Dimension,
    ) -> Answer<(Number, Dimension)> {
        const FORM: &str = "',', a limit, ',' and a window, as in seconds_to(METRIC, 0, 5min)";
        self.need(",", FORM)?;
        let limit = self.sum()?;
        let span = limit.1;
        let (limit, of_limit) = as_number(limit)?;
        if dimension.joined(of_limit).is_none() {
            return Err(ExpressionError::new(span, mismatch("compared", dimension, of_limit)));
        }
        self.need(",", FORM)?;
        let window = self.window(metric)?;
        let number = Number::SecondsTo(metric, Box::new(limit), window);
        Ok((number, Dimension::of(weigh_schema::Unit::Seconds)))
    }

    /// A duration, written out, in nanoseconds.
    fn window(&mut self, metric: MetricUse) -> Answer<u64> {
        let Token::Number(seconds, dimension) = self.next.0 else {
            return Err(self.unexpected("a duration, such as 30s or 5min"));
        };
        let is_duration = dimension.unit == Some(weigh_schema::Unit::Seconds);
        if !is_duration || !(SHORTEST_WINDOW..=LONGEST_WINDOW).contains(&seconds) {
            return Err(self.unexpected("a duration from 1s to 1d, such as 30s or 5min"));
        }
        self.advance()?;
        let window_ns = (seconds * 1e9) as u64;
        self.metrics.keep_window(metric.id, window_ns);
        Ok(window_ns)
    }
}

fn mismatch(what: &str, a: Dimension, b: Dimension) -> String {
    let unit = |dimension: Dimension| {
        dimension.unit.map_or_else(|| "a plain number".to_string(), |unit| unit.to_string())
    };
    format!("{} and {} cannot be {what}", unit(a), unit(b))
}

fn as_number((expression, span): Spanned) -> Answer<(Number, Dimension)> {
    match expression {
        Expression::Number(number, dimension) => Ok((number, dimension)),
        Expression::Truth(_) => Err(ExpressionError::new(
            span,
            "it is a comparison: expected a number; two comparisons are joined by 'and' or 'or'",
        )),
    }
}

fn join(
    left: Spanned,
    right: Spanned,
    make: fn(Box<Truth>, Box<Truth>) -> Truth,
) -> Answer<Spanned> {
    let span = left.1.to(right.1);
    let truth = |(expression, span): Spanned| match expression {
        Expression::Truth(truth) => Ok(Box::new(truth)),
        Expression::Number(..) => Err(ExpressionError::new(
            span,
            "it is a number: expected a comparison, such as NUMBER > 10",
        )),
    };
    Ok((Expression::Truth(make(truth(left)?, truth(right)?)), span))
}

fn pair(how: Arithmetic, left: Spanned, right: Spanned) -> Answer<Spanned> {
    let span = left.1.to(right.1);
    let ((left, a), (right, b)) = (as_number(left)?, as_number(right)?);
    let dimension = match how {
        Arithmetic::Times => a.times(b),
        Arithmetic::DividedBy => a.divided_by(b),
        Arithmetic::Plus | Arithmetic::Minus => {
            a.joined(b).ok_or_else(|| ExpressionError::new(span, mismatch("added", a, b)))?
        }
    };
    let number = Number::Pair(how, Box::new(left), Box::new(right));
    Ok((Expression::Number(number, dimension), span))
}
