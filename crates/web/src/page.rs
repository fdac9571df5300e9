//! The data of a recording's page: the binary makes it, as for `report.html`.

use weigh_keep::Recording;
use weigh_show::report::Page;

/// Makes the data of a recording's page, without its series.
pub type PageBuilder =
    Box<dyn Fn(&Recording) -> Result<Page, Box<dyn std::error::Error + Send + Sync>> + Send + Sync>;
