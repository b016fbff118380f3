//! Ropes.
use std::{collections::HashMap, fmt};

/// A winch.
#[derive(Debug, Clone)]
pub struct Winch<'a, T: fmt::Display + 'a> { parts: HashMap<&'a str, Vec<T>> }

impl<'a, T: fmt::Display> Winch<'a, T> {
    pub async fn pull(&mut self, by: usize) -> Result<Option<T>, Box<dyn std::error::Error>> {
        let f = |x: u8| -> u8 { x << 1 };
        match self.parts.get("r") { Some(v) if by < v.len() => Ok(None), _ => panic!("{}", f(1)) }
    }
}
macro_rules! pull { ($($x:expr),*) => { [$($x),*] }; }
