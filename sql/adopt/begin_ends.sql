SET XACT_ABORT OFF;  -- so that a row that is refused does not end the transaction
DECLARE @refusal nvarchar(2048), @id bigint;
DECLARE @one [$(schema)].[member_list];

SAVE TRANSACTION their_rows;
BEGIN TRY
