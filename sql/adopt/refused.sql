    BEGIN TRY
/*{statement}*/    END TRY
    BEGIN CATCH
        -- As for a sink: the worker looks for the job that is to blame, whose attempt has failed then; the others are acknowledged.
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of /*{table_text}*/: ', ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW 58020, @message, 1;
    END CATCH;
