//! The frame around every page.

use std::time::SystemTime;

use crate::app::App;
use crate::attention::now;
use crate::failure::Failure;
use crate::security::visitor::Visitor;
use crate::time;

/// Head, navigation and foot, for one visitor.
pub struct Frame {
    pub title: String,
    /// The current entry of the navigation.
    pub section: &'static str,
    /// The relative path to the pages.
    pub root: String,
    pub schema: String,
    pub visitor: Visitor,
    /// Whether to show buttons.
    pub may_act: bool,
    /// The result of the last action.
    pub notice: Option<String>,
    /// How many problems the last reading has; 0 if there is no recent one.
    pub problems: usize,
    /// The time on this machine, in milliseconds since 1970: the script corrects the browser's clock by it.
    pub now: u128,
    /// The other form of times, and the address of the page in that form.
    pub other_times: Option<(&'static str, String)>,
    /// The names of the stylesheet, the script and the icons.
    pub assets: &'static crate::assets::Names,
}

impl Frame {
    pub async fn new(app: &App, visitor: Visitor, section: &'static str, title: impl Into<String>) -> Frame {
        let may_act = visitor.may_act && app.readings.login_may_act().await;
        let notice = app.sessions.take_notice(&visitor.session);
        let frame = Frame::without_asking(app, visitor, section, title);
        Frame { may_act, notice, other_times: time::other_form(), ..frame }
    }

    /// The frame of a page without buttons, for which SQL Server is not asked.
    pub fn without_asking(app: &App, visitor: Visitor, section: &'static str, title: impl Into<String>) -> Frame {
        Frame {
            title: title.into(),
            section,
            root: String::new(),
            schema: app.schema().schema().to_owned(),
            visitor,
            may_act: false,
            notice: None,
            problems: app.readings.problems(),
            now: now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis(),
            other_times: None,
            assets: crate::assets::names(),
        }
    }

    /// The frame of a page that is only for acting.
    ///
    /// # Errors
    ///
    /// [`Failure::NotAllowed`] if the visitor may only view.
    pub async fn to_act(
        app: &App,
        visitor: Visitor,
        section: &'static str,
        title: impl Into<String>,
    ) -> Result<Frame, Failure> {
        let frame = Frame::new(app, visitor, section, title).await;
        if frame.may_act { Ok(frame) } else { Err(Failure::NotAllowed) }
    }
}
