-- For those that take a job: refuses headers that are no JSON object, are too long, or have names that are readpast's own. (enqueue_batch checks
-- those of all its jobs at once.)
CREATE OR ALTER PROCEDURE [$(schema)].[check_headers]
    @headers nvarchar(1301)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
IF DATALENGTH(@headers) > 2600 OR ISJSON(@headers) = 0 OR @headers NOT LIKE N'{%'
    THROW 58003, N'headers must be a JSON object of up to 1300 characters, which begins with {', 1;
EXEC [$(schema)].[check_text] N'headers', @headers;
-- A statement of its own: OPENJSON fails where it is not JSON.
IF EXISTS (SELECT 1 FROM OPENJSON(@headers) WHERE [key] LIKE N'readpast-%')
    THROW 58003, N'headers must not have names that begin with readpast-: those are readpast''s own', 1;
GO
